"""What a reader sees of an audit: values read out of a report, for pages; nothing is drawn here."""
