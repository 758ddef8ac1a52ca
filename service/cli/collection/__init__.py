"""Commands about a collection: index, search, entails."""
