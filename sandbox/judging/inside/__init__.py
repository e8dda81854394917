"""What is shipped into boxes, beside untrusted code: standard library only, relative imports only.

What these modules tell the service is a claim of the program, never a verdict.
"""
