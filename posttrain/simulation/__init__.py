"""A discrete-event model of asynchronous RL: what a rule, a split and a service would give.

`settings` says what is modelled; `distributions` draws lengths and times, the same for every rule;
`decoding` is the rollout engine, `scoring` the reward service; `rules` decide what may be issued
and what is trained on; `engine` moves a run through time; `outcome` is what it came to, `ceiling`
what it could have come to at best; `sizing` searches splits and replicas; `measured` takes settings
from an RL stage that ran; `table` shows a row for each rule.

Always holds: equal settings give equal figures, and nothing here imports torch, ray or verl.
"""
