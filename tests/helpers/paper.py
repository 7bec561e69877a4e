"""The ids of ML-Dev-Bench, which suites and published figures are measured against."""

PAPER = [
    "dataset_not_available_download",
    "dataset_preprocess",
    "noisy_dataset_download",
    "wandb_logging",
    "basic_vision_finetuning",
    "parse_logs",
    "pretrained_bert_base_uncased_load",
    "pretrained_model_load_from_torchvision",
    "small_dataset_overfit",
    "full_train_workflow_setup_test",
    "shape_mismatch_output",
    "shape_mismatch_train",
    "nan_loss_debug",
    "normalization_bug",
    "training_files_debug",
    "bert_eval_debug",
    "vit_debugging",
    "channel_vit_implementation",
    "channel_vit_implementation_easy",
    "channel_vit_implementation_no_test",
    "var_implementation",
    "mla_implementation",
    "mla_implementation_hidden_tests",
    "ppo_implementation",
    "improve_cifar10_baseline",
    "improve_segmentation_baseline",
    "cifar_10_lt_performance",
    "cifar100_performance",
    "full_train_workflow_performance_test",
    "boolq_performance",
]
"""The 30 of the paper, with the best guess of three."""
BESIDE = ["hello_world", "lora_implementation", "mcts_implementation", "noisy_label_annotation"]
"""The other four ids of its repository."""
