"""System 2: taking personal information out of clinical text, and measuring how well."""
