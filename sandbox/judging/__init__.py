"""How a program is judged: what runs in the boxes, what is compared outside, what it amounts to."""
