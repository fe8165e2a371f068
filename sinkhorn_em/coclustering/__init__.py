"""Co-clustering: latent block models fitted by variational Sinkhorn-EM."""
