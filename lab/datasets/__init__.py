"""Importers of datasets in published formats: MS-COCO, Karpathy, Flickr8k."""
