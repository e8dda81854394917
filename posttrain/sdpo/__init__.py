"""SDPO: a model is drawn to what it would say had it read feedback on its own response.

The student samples, a judge says what is amiss, and the same model with that feedback in its prompt
(the teacher, which is never sampled) scores the student's tokens. Source: arXiv 2601.20802.

Always holds: a response is distilled only where there was something to tell the teacher; what a
judge did not say is never made up, and what is left out is counted by reason.
"""
