//! Routes that cannot be without a right, and the list of them.

use std::fmt;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, any, on};
use axum::{Router, middleware};
use serde::{Deserialize, Serialize};

use super::check::{self, Gate, RouteCheck, harden};

/// The largest body of a request: nothing here takes files.
const MAX_BODY: usize = 1 << 20;

/// Begins a route. It has to say what right it needs before it can be added:
///
/// ```
/// use vestal_dashboard::gate::{Right, Route};
///
/// let route = Route::get("/api/now", async || "quiet").needs(Right::Viewer);
/// # let _: vestal_dashboard::gate::DeclaredRoute<()> = route;
/// ```
///
/// Without [`Undeclared::needs`] it does not compile:
///
/// ```compile_fail,E0308
/// use vestal_dashboard::gate::{DeclaredRoute, Route};
///
/// let route: DeclaredRoute<()> = Route::get("/api/now", async || "quiet");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Route;

/// What is served on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// Requests and answers.
    Http,
    /// A WebSocket, which needs a ticket besides the session.
    WebSocket,
}

/// A route that does not say yet what right it needs.
#[must_use]
pub struct Undeclared<S> {
    method: Method,
    path: &'static str,
    kind: RouteKind,
    handler: MethodRouter<S>,
}

/// A route with its right.
#[must_use]
pub struct DeclaredRoute<S> {
    entry: RouteEntry,
    handler: MethodRouter<S>,
}

/// What is known of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteEntry {
    /// The method.
    pub method: Method,
    /// The path, with `{names}` for its parts.
    pub path: &'static str,
    /// What it asks of a caller.
    pub right: Right,
    /// What is served on it.
    pub kind: RouteKind,
}

impl Route {
    /// Begins a route that reads.
    pub fn get<H, T, S>(path: &'static str, handler: H) -> Undeclared<S>
    where
        H: Handler<T, S>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        let handler = on(MethodFilter::GET, handler);
        Undeclared { method: Method::GET, path, kind: RouteKind::Http, handler }
    }

    /// Begins a route that changes something.
    pub fn post<H, T, S>(path: &'static str, handler: H) -> Undeclared<S>
    where
        H: Handler<T, S>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        let handler = on(MethodFilter::POST, handler);
        Undeclared { method: Method::POST, path, kind: RouteKind::Http, handler }
    }

    /// Begins a WebSocket. It needs a ticket besides what its right asks for.
    pub fn websocket<H, T, S>(path: &'static str, handler: H) -> Undeclared<S>
    where
        H: Handler<T, S>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        Undeclared { kind: RouteKind::WebSocket, ..Self::get(path, handler) }
    }
}

impl<S> Undeclared<S> {
    /// Says what right the route needs.
    pub fn needs(self, right: Right) -> DeclaredRoute<S> {
        let Self { method, path, kind, handler } = self;
        DeclaredRoute { entry: RouteEntry { method, path, right, kind }, handler }
    }
}

impl<S> fmt::Debug for Undeclared<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Undeclared({} {})", self.method, self.path)
    }
}

impl<S> fmt::Debug for DeclaredRoute<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

/// All routes of a server, behind one gate.
#[must_use]
pub struct Routes<S> {
    gate: Arc<Gate>,
    router: Router<S>,
    entries: Vec<RouteEntry>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Begins without a route: everything is refused.
    pub fn new(gate: Arc<Gate>) -> Self {
        Self { gate, router: Router::new(), entries: Vec::new() }
    }

    /// Adds a route.
    pub fn route(mut self, route: DeclaredRoute<S>) -> Self {
        let DeclaredRoute { entry, handler } = route;
        let check =
            RouteCheck { gate: Arc::clone(&self.gate), right: entry.right, kind: entry.kind };
        let handler = handler.layer(middleware::from_fn_with_state(check, check::admit));
        self.router = self.router.route(entry.path, handler);
        self.entries.push(entry);
        self
    }

    /// Adds several.
    pub fn routes(self, routes: impl IntoIterator<Item = DeclaredRoute<S>>) -> Self {
        routes.into_iter().fold(self, Self::route)
    }

    /// Returns what was added.
    pub fn entries(&self) -> &[RouteEntry] {
        &self.entries
    }

    /// Returns the routes behind the gate. What is not a route is answered by `not_found`, and needs a
    /// login too, so that nobody learns from outside which there are.
    pub fn finish<H, T>(self, state: S, not_found: H) -> Router
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let Self { gate, router, .. } = self;
        let unknown =
            RouteCheck { gate: Arc::clone(&gate), right: Right::Viewer, kind: RouteKind::Http };
        let fallback = any(not_found).layer(middleware::from_fn_with_state(unknown, check::admit));
        router
            .fallback_service(fallback.with_state(state.clone()))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .layer(middleware::from_fn_with_state(gate, check::enter))
            .layer(middleware::map_response(harden))
            .with_state(state)
    }
}

impl<S> fmt::Debug for Routes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.entries).finish()
    }
}

/// What a route asks of a caller. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Everybody who reaches the server. Such a route tells nothing about the home.
    Public,
    /// Somebody who has logged in: reads.
    Viewer,
    /// Somebody who may change something.
    Operator,
}

impl Right {
    /// Returns the word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }

    /// Reads a stored word. An unknown one gives no right at all.
    pub(crate) fn of_word(word: &str) -> Self {
        match word {
            "operator" => Self::Operator,
            "viewer" => Self::Viewer,
            _ => Self::Public,
        }
    }
}

/// Somebody whom the gate has let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Principal {
    /// The name that the audit log has.
    pub name: String,
    /// What they may do.
    pub right: Right,
    /// How they came in: `link`, `password`, `proxy` or `insecure`.
    pub method: &'static str,
}
