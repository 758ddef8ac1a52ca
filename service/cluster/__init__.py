"""Several machines: shards and their replicas on Ray, and the front ends that ask them."""
