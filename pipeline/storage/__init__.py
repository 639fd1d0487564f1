"""URIs, blocks, manifests: how every artifact is written whole or not at all."""
