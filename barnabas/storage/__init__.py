"""One partition's log on disk, and the directories that hold many."""
