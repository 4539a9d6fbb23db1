//! Usage: which tokens are counted, how they are grouped, and what they cost by a table of prices.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::key::SessionKey;
use crate::error::{Error, Result};

/// What tokens are summed up by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageBy {
    /// By day (UTC).
    #[default]
    Day,
    /// By session.
    Session,
    /// By model.
    Model,
    /// By project.
    Project,
    /// By turn: the uuid of its prompt. A sub-agent's responses are no turn's.
    Turn,
    /// Each response by itself.
    Response,
}

impl UsageBy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Session => "session",
            Self::Model => "model",
            Self::Project => "project",
            Self::Turn => "turn",
            Self::Response => "response",
        }
    }
}

/// Which responses to count, and how.
#[derive(Clone, Debug, Default)]
pub struct UsageQuery {
    pub(crate) by: UsageBy,
    pub(crate) project_key: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) session: Option<SessionKey>,
    pub(crate) model: Option<String>,
    pub(crate) since_ms: Option<i64>,
    pub(crate) until_ms: Option<i64>,
    pub(crate) prices: Option<PriceTable>,
}

impl UsageQuery {
    /// All responses, summed up so.
    pub fn by(by: UsageBy) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    /// Only those in this project.
    pub fn project(mut self, project_key: impl Into<String>) -> Self {
        self.project_key = Some(project_key.into());
        self
    }

    /// Only those in sessions that began in this directory.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Only those said in this session; what a fork inherits was said in its origin.
    pub fn session(mut self, key: SessionKey) -> Self {
        self.session = Some(key);
        self
    }

    /// Only this model's.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Only those that began at this time (epoch ms) or later.
    pub fn since_ms(mut self, time: i64) -> Self {
        self.since_ms = Some(time);
        self
    }

    /// Only those that began before this time (epoch ms).
    pub fn until_ms(mut self, time: i64) -> Self {
        self.until_ms = Some(time);
        self
    }

    /// Tells the cost by this table.
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.prices = Some(prices);
        self
    }
}

/// Tokens, how many responses they were counted of, and what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Used {
    /// Responses.
    pub responses: u64,
    /// Tokens read by the model, but for those from the cache.
    pub input: u64,
    /// Tokens written by it.
    pub output: u64,
    /// Tokens read from the prompt cache.
    pub cache_read: u64,
    /// Tokens written to it.
    pub cache_write: u64,
    /// What the priced responses cost; `None` without prices, or if none of them has one.
    pub cost: Option<f64>,
    /// Responses that have no price in the table.
    pub unpriced: u64,
}

impl Used {
    pub(crate) fn add(&mut self, tokens: [u64; 4], cost: Option<Option<f64>>) {
        self.responses += 1;
        // Whatever a line claims, one of them spoils no report.
        self.input = self.input.saturating_add(tokens[0]);
        self.output = self.output.saturating_add(tokens[1]);
        self.cache_read = self.cache_read.saturating_add(tokens[2]);
        self.cache_write = self.cache_write.saturating_add(tokens[3]);
        match cost {
            Some(Some(cost)) => self.cost = Some(self.cost.unwrap_or(0.0) + cost),
            Some(None) => self.unpriced += 1,
            None => {}
        }
    }
}

/// A row of a report.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UsageRow {
    /// What its responses have in common: the day, the model, the project key, the session's key, the
    /// turn's uuid, the response's id. `None`: they have none.
    pub group: Option<String>,
    /// The session, of a report by session, turn or response.
    pub session: Option<SessionKey>,
    /// What was used.
    pub used: Used,
}

/// What was used.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UsageReport {
    /// A row a group, in order: days and models by name, all else as it was stored.
    pub rows: Vec<UsageRow>,
    /// All of it.
    pub total: Used,
    /// The models that have no price in the table, or not for all kinds of their tokens; an empty name
    /// stands for responses that name no model.
    pub unpriced: Vec<String>,
}

/// Prices as the user gives them. None is known here.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceTable {
    source: String,
    currency: String,
    per: f64,
    models: BTreeMap<String, Price>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    source: String,
    currency: String,
    per: Option<f64>,
    models: BTreeMap<String, Price>,
}

impl PriceTable {
    /// Reads a table from JSON: `{"source": "where the prices are from", "currency": "USD", "per":
    /// 1000000, "models": {"NAME": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write":
    /// 3.75}}}`. `per` is how many tokens a price is for; a name that ends with a star stands for all
    /// that begin so, the longest first.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is no such table, a price is no number of at least 0, or `per` none above 0.
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |why: String| Error::invalid("prices", why);
        let written: Written =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let per = written.per.unwrap_or(1_000_000.0);
        let of = |price: &Price| {
            [
                price.input,
                price.output,
                price.cache_read,
                price.cache_write,
            ]
        };
        let prices = written.models.values().flat_map(of).flatten();
        if per <= 0.0 {
            let why = "`per` is how many tokens a price is for: it must be above 0";
            return Err(wrong(why.to_owned()));
        }
        if prices.into_iter().any(|price| price < 0.0) {
            return Err(wrong("a price is below 0".to_owned()));
        }
        if written.source.trim().is_empty() {
            return Err(wrong(
                "`source` is blank: say where the prices are from".to_owned(),
            ));
        }
        Ok(Self {
            source: written.source,
            currency: written.currency,
            per,
            models: written.models,
        })
    }

    /// Where the prices are from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What they are in.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    fn price(&self, model: &str) -> Option<&Price> {
        self.models.get(model).or_else(|| {
            let begins = |name: &&String| {
                let beginning = name.strip_suffix('*');
                beginning.is_some_and(|beginning| model.starts_with(beginning))
            };
            let longest = self
                .models
                .keys()
                .filter(begins)
                .max_by_key(|name| name.len())?;
            self.models.get(longest)
        })
    }

    /// What tokens cost (input, output, read from and written to the cache); `None` if the model has
    /// no price for one of the kinds there are.
    pub(crate) fn cost(&self, model: &str, tokens: [u64; 4]) -> Option<f64> {
        let price = self.price(model)?;
        let prices = [
            price.input,
            price.output,
            price.cache_read,
            price.cache_write,
        ];
        let mut cost = 0.0;
        for (count, price) in tokens.into_iter().zip(prices) {
            if count > 0 {
                cost += count as f64 * price? / self.per;
            }
        }
        Some(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_comes_from_the_table_alone() {
        let table = PriceTable::from_json(
            r#"{"source":"price list of May","currency":"USD","models":{
                "model-x":{"input":3,"output":15,"cache_read":0.3,"cache_write":3.75},
                "model-*":{"input":1,"output":1},"model-y*":{"input":2}}}"#,
        )
        .unwrap();
        let cost = table
            .cost("model-x", [1_000_000, 100_000, 10_000_000, 0])
            .unwrap();
        assert!((cost - 7.5).abs() < 1e-9);
        assert_eq!(table.cost("model-z", [500_000, 500_000, 0, 0]), Some(1.0));
        assert_eq!(table.cost("model-y2", [500_000, 0, 0, 0]), Some(1.0));
        assert_eq!(table.cost("model-z", [1, 0, 1, 0]), None);
        assert_eq!(table.cost("other", [1, 0, 0, 0]), None);
    }

    #[test]
    fn a_table_that_is_none_is_refused() {
        for text in [
            "[]",
            r#"{"currency":"USD","models":{}}"#,
            r#"{"source":" ","currency":"USD","models":{}}"#,
            r#"{"source":"x","currency":"USD","models":{"m":{"input":-1}}}"#,
            r#"{"source":"x","currency":"USD","models":{"m":{"inptu":1}}}"#,
            r#"{"source":"x","currency":"USD","per":0,"models":{}}"#,
        ] {
            assert!(PriceTable::from_json(text).is_err(), "{text}");
        }
        let text = r#"{"source":"x","currency":"USD","per":0,"models":{}}"#;
        let error = PriceTable::from_json(text).unwrap_err().to_string();
        assert!(
            error.ends_with("`per` is how many tokens a price is for: it must be above 0"),
            "{error}"
        );
    }
}
