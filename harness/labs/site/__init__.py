"""What the pages of a lab's site and of papers hold, as plain values."""
