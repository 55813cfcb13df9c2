//! Getting in and out: links, passwords, sessions, tickets, and the record of all that.

mod audit;
mod cookies;
mod login;
mod oidc;
mod password;
mod store;
mod tickets;

pub use audit::audit_log_files;
pub(crate) use audit::{Audit, AuditEvent};
pub(crate) use cookies::{
    clear_cookie, clear_oidc_cookie, oidc_cookie, oidc_cookies, session_cookie, session_cookies,
};
pub(crate) use login::{LoginState, login_path, routes, safe_next};
pub(crate) use oidc::{Oidc, is_trustworthy};
pub use oidc::{OidcSettings, People};
pub use password::{MIN_PASSWORD, PasswordError};
pub use store::{AuthStore, LinkError, NewLink, store_path};
pub(crate) use store::{SessionId, Token};
pub(crate) use tickets::Tickets;
