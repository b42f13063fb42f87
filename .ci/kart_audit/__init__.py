"""KART Audit: may this language model leave the building?"""
