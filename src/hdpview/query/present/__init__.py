"""Results as people see them: data frames, pictures, HTML."""
