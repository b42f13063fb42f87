"""Before a run: kept lists, checks of models and names, and the plan of an audit."""
