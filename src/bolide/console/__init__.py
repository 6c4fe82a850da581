"""`bolide console`: shows and administers a cluster in a browser. All queries and changes use `admin`."""
