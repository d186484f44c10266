//! Cleaning against a naive model.
