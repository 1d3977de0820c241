"""The job activity: events counted by windows of their time and gathered into sessions, back into a topic."""
