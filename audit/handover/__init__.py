"""What is handed over and signed: the report as HTML, tables and a bundle with its manifest."""
