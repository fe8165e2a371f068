"""Pictures of fitted mixtures (needs matplotlib, the extra ``plot``)."""
