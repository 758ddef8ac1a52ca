"""The page people use: server-rendered, complete without JavaScript, quicker with it."""
