"""The demo: what the first command shows, a judge by words, and passages about the sea."""
