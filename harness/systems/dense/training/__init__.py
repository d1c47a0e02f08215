"""Fine-tuning of pretrained models on judgments, and the training loop that all models share."""
