"""`bolide console`: a cluster in a browser. Everything asked of the cluster goes through `admin`."""
