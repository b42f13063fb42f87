"""The screens: one page per question. A page shows the engine's results and computes nothing."""
