//! Panics that end one request, and not the dashboard.
//!
//! A program whose hook for panics ends the process asks [`is_contained`] first: where it is true,
//! somebody waits for the panic, and everybody else's work goes on.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Reports whether a panic on this thread, now, is caught and told to whoever is concerned.
pub fn is_contained() -> bool {
    DEPTH.get() > 0
}

/// A future whose panics are caught by whoever polls it.
#[derive(Debug)]
pub(crate) struct Contained<F>(Pin<Box<F>>);

impl<F: Future> Contained<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _inside = Inside::enter();
        self.0.as_mut().poll(context)
    }
}

struct Inside;

impl Inside {
    fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}
