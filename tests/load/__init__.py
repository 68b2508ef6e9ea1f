"""The app under load: traces opened one after another, and keys pressed at random for as long as one likes."""
