"""The job audit: what producers sent, what topics hold and what a lake has, counted apart and compared."""
