"""Several machines: shards and their replicas on Ray, and the entrances that ask them."""
