"""The learning algorithms: one folder each, all behind the protocol in `base`."""
