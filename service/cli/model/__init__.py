"""Commands that make models: data, features, train, distill, evaluate and the tasks."""
