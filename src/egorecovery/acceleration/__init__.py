"""Speed on CUDA, apart from the method: Triton kernels, concurrent streams, deferred weight gradients.

Nothing here changes what is learnt. `accelerator.py`, the only module outside that imports this package, works
without it: delete the folder, and everything runs on plain torch.
"""
