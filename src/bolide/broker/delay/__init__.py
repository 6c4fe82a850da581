"""Messages that wait for their time: the eighteen delay levels, the timer, and recalls."""
