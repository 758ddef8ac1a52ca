"""Programs on top of the product: they reproduce tables of papers or make a built-in model.

No package of the product imports this one. `hasse study` reads `COMMANDS` where it is installed.
"""

COMMANDS = {
    "hypernyms": "hasse.studies.hypernyms.command:hypernyms",
    "entailment": "hasse.studies.entailment.command:entailment",
    "transfer": "hasse.studies.transfer.command:transfer",
    "captioner": "hasse.studies.captioner.command:captioner",
    "photographs": "hasse.studies.photographs.command:photographs",
    "distill": "hasse.studies.distillation.command:distill",
    "plot": "hasse.studies.tables.plot_command:plot",
}
