"""Tables, charts and the HTML page."""
