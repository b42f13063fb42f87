"""The engine of KART Audit: may this language model leave the building?"""
