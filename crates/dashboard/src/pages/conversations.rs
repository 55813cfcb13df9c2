//! Conversations: listed, searched and read.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use vestal_api::dashboard::{ConversationsPageView, OfProfileView, TroubleView};
use vestal_api::{ConversationDetailsView, ConversationView, HitView};
use vestal_conversations::{ConversationFilter, SearchScope};
use vestal_model::{Image, Message, Part};

use super::files::picture_kind;
use crate::app::App;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// Conversations of a profile on a page.
const SHOWN: u32 = 50;

/// Messages of one conversation among what a search found.
const EACH: u32 = 3;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/conversations", list).needs(Right::Viewer),
        Route::get("/api/conversations/search", search).needs(Right::Viewer),
        Route::get("/api/conversations/{profile}/{id}", show).needs(Right::Viewer),
        Route::get(
            "/api/conversations/{profile}/{id}/messages/{message}/pictures/{number}",
            picture,
        )
        .needs(Right::Viewer),
    ]
}

#[derive(Debug, Deserialize)]
pub(super) struct ConversationListQuery {
    profile: Option<String>,
    /// Only those last used before this moment: where the page before ended.
    before: Option<String>,
    /// What is looked for.
    #[serde(default)]
    q: String,
}

async fn list(
    State(app): State<App>,
    Query(query): Query<ConversationListQuery>,
) -> Result<Json<ConversationsPageView<ConversationView>>, PageError> {
    let before = match query.before.as_deref().filter(|before| !before.is_empty()) {
        Some(before) => Some(
            before
                .parse::<Timestamp>()
                .map_err(|error| PageError::invalid(format!("before: {error}")))?,
        ),
        None => None,
    };
    // One more than is shown tells whether there are more.
    let filter = ConversationFilter { before, limit: SHOWN + 1, ..ConversationFilter::default() };
    let mut found = empty();
    for profile in app.data.profiles_of(query.profile.as_deref())? {
        let of_one = async {
            let Some(store) = app.data.conversations(&profile).await? else {
                return Ok(Vec::new());
            };
            Ok::<_, PageError>(store.list(&filter).await?)
        };
        match of_one.await {
            Ok(listed) => found.conversations.extend(
                listed
                    .iter()
                    .map(|one| OfProfileView { profile: profile.to_string(), view: one.into() }),
            ),
            Err(error) => {
                found
                    .troubles
                    .push(TroubleView::new(format!("profile {profile}"), &error.detail()));
            }
        }
    }
    let used =
        |one: &OfProfileView<ConversationView>| std::cmp::Reverse(one.view.updated_at.clone());
    found.conversations.sort_by_key(used);
    found.more = found.conversations.len() > SHOWN as usize;
    found.conversations.truncate(SHOWN as usize);
    Ok(Json(found))
}

fn empty<T>() -> ConversationsPageView<T> {
    ConversationsPageView { conversations: Vec::new(), more: false, troubles: Vec::new() }
}

async fn search(
    State(app): State<App>,
    Query(query): Query<ConversationListQuery>,
) -> Result<Json<ConversationsPageView<HitView>>, PageError> {
    let scope = SearchScope { each: Some(EACH), ..SearchScope::default() };
    let mut found = empty();
    for profile in app.data.profiles_of(query.profile.as_deref())? {
        let of_one = async {
            let Some(store) = app.data.conversations(&profile).await? else {
                return Ok(Vec::new());
            };
            Ok::<_, PageError>(store.search(&scope, &query.q, SHOWN + 1).await?)
        };
        match of_one.await {
            Ok(hits) => {
                found.more |= hits.len() > SHOWN as usize;
                let shown = hits.iter().take(SHOWN as usize);
                found.conversations.extend(
                    shown.map(|hit| OfProfileView {
                        profile: profile.to_string(),
                        view: hit.into(),
                    }),
                );
            }
            Err(error) => {
                found
                    .troubles
                    .push(TroubleView::new(format!("profile {profile}"), &error.detail()));
            }
        }
    }
    Ok(Json(found))
}

async fn show(
    State(app): State<App>,
    Path((profile, id)): Path<(String, String)>,
) -> Result<Json<ConversationDetailsView>, PageError> {
    let home = app.data.profile(&profile)?;
    let absent = || PageError::not_found(format!("there is no conversation {id}"));
    let store = app.data.conversations(home.profile()).await?.ok_or_else(absent)?;
    let id = store.find(&id).await?;
    let conversation = (&store.summary(&id).await?).into();
    let (system_prompt, mut history) = (store.system_prompt(&id).await?, store.history(&id).await?);
    // A page asks for each picture that it shows.
    for image in history.iter_mut().flat_map(|stored| pictures(&mut stored.message)) {
        image.data.clear();
    }
    Ok(Json(ConversationDetailsView { conversation, system_prompt, history }))
}

/// Returns the pictures of a message, in order.
fn pictures(message: &mut Message) -> Vec<&mut Image> {
    fn of_part(part: &mut Part) -> Option<&mut Image> {
        match part {
            Part::Image(image) => Some(image),
            Part::Text { .. } => None,
        }
    }
    match message {
        Message::User(message) => message.parts.iter_mut().filter_map(of_part).collect(),
        Message::Tool(result) => result.images.iter_mut().collect(),
        Message::Assistant(_) => Vec::new(),
    }
}

/// Returns a picture of a message, as nothing but one. What is stored may be anybody's.
async fn picture(
    State(app): State<App>,
    Path((profile, id, message, number)): Path<(String, String, i64, usize)>,
) -> Result<Response, PageError> {
    let home = app.data.profile(&profile)?;
    let absent = || PageError::not_found("there is no such picture");
    let store = app.data.conversations(home.profile()).await?.ok_or_else(absent)?;
    let id = store.find(&id).await?;
    let mut history = store.history(&id).await?;
    let stored = history.iter_mut().find(|stored| stored.seq.0 == message).ok_or_else(absent)?;
    let pictures = pictures(&mut stored.message);
    let bytes = STANDARD.decode(&pictures.get(number).ok_or_else(absent)?.data);
    let bytes = bytes.map_err(|_| absent())?;
    let kind = picture_kind(&bytes)
        .ok_or_else(|| PageError::invalid("it is not a picture that is shown here"))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
    ];
    Ok((headers, bytes).into_response())
}
