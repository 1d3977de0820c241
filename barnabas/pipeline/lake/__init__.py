"""Tables of a lake: Parquet files that count when a commit names them. Delta, or Parquet with manifests."""
