"""Several machines: shards and their replicas on Ray, and front ends that send them searches."""
