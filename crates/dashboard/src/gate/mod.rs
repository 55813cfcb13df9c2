//! The gate: what every request passes before a handler sees it.
//!
//! A route is made with [`Route`] and has no way into [`Routes`] before its right is declared, so
//! that a route without one does not compile. What holds for all requests (Host, Origin, headers,
//! limits) is put around the routes by [`Routes::finish`].

mod check;
mod limits;
mod peer;
mod routes;

pub use check::{Caller, Gate};
pub(crate) use check::{FETCH_SITE, header_value};
pub(crate) use limits::Limiter;
pub use peer::{AddressRange, Client, HostAndPort, ParseNetworkError, PeerPolicy};
pub use routes::{
    DeclaredRoute, Principal, Right, Route, RouteEntry, RouteKind, Routes, Undeclared,
};
