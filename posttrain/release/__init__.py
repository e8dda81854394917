"""The release suite: black-box checks of an OpenAI-compatible endpoint.

Always holds: what is asked is fixed, at temperature 0 or with a seed; every wait is bounded; an
endpoint that went away is a failed run, never a passed check. Some checks are about the server,
the others about the model: only the latter may be told apart as the model's business.
"""
