"""The pipeline on real events, from the feed to the plot: `make pipeline-demo`."""
