"""A broker inside the test process, faulty files and other doubles, shipped to users."""
