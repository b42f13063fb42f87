"""The screens: one page a question. A page shows what the engine found and computes nothing."""
