"""System 1: was this person's name in the notes the model was trained on?"""
