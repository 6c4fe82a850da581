"""The values that users of the client handle: messages, queues, results, selectors, errors."""
