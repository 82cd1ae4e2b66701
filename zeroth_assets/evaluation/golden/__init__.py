"""The golden set: questions, the spans that answer them, and what follows from both for any way of cutting chunks."""
