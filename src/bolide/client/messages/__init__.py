"""The values that users of the client meet: messages, queues, results, selectors, errors."""
