# Are people over 65 more likely than others to stay in hospital for a week or more? A research question answered
# from R, end to end.
#
#   hdpview demo
#   hdpview serve hdpview-demo/admissions.pview &
#   Rscript examples/long_stays.R
#
# Needs DBI, RPostgreSQL (or RPostgres), dplyr and dbplyr. The table is never read: the view answers from
# counts that were released under differential privacy, so no question costs further budget.

suppressMessages({
  library(DBI)
  library(RPostgreSQL)
  library(dplyr)
  library(dbplyr)
})
given <- commandArgs(trailingOnly = TRUE)
port <- if (length(given) > 0) as.integer(given[1]) else 5433L
con <- dbConnect(PostgreSQL(), host = "127.0.0.1", port = port, user = "analyst", dbname = "hdpview")
admissions <- tbl(con, "admissions")

# 1. What is there? Columns, and what is protected.
print(dbListFields(con, "admissions"))
print(dbGetQuery(con, "SELECT obj_description('admissions'::regclass, 'pg_class') AS about"))

# 2. A first look with dplyr: length of stay by age.
stays <- admissions %>%
  mutate(over_65 = age > 65) %>%
  group_by(over_65) %>%
  summarise(n = n(), days = mean(stay_days, na.rm = TRUE)) %>%
  collect()
print(stays)

# 3. As an odds ratio with its 95% interval: hdpview.intervals adds the ends of every number.
invisible(dbGetQuery(con, "SET hdpview.intervals = on"))
crude <- dbGetQuery(con, "
  SELECT (COUNT(*) FILTER (WHERE age > 65 AND stay_days >= 7) * COUNT(*) FILTER (WHERE age <= 65 AND stay_days < 7))
       / (COUNT(*) FILTER (WHERE age > 65 AND stay_days < 7) * COUNT(*) FILTER (WHERE age <= 65 AND stay_days >= 7))
       AS odds_ratio
  FROM admissions")
print(crude)

# 4. Wards differ in age and in length of stay. Counts per ward, and the odds ratio of Mantel and Haenszel.
#    A NOTICE names the pairs of these three that were not counted together, and are modelled.
invisible(dbGetQuery(con, "SET hdpview.intervals = off"))
strata <- dbGetQuery(con, "
  SELECT ward,
         COUNT(*) FILTER (WHERE age > 65 AND stay_days >= 7) AS a,
         COUNT(*) FILTER (WHERE age > 65 AND stay_days < 7) AS b,
         COUNT(*) FILTER (WHERE age <= 65 AND stay_days >= 7) AS c,
         COUNT(*) FILTER (WHERE age <= 65 AND stay_days < 7) AS d
  FROM admissions GROUP BY ward HAVING COUNT(*) FILTER (WHERE age > 65) > 500 ORDER BY ward")
strata$n <- with(strata, a + b + c + d)
adjusted <- with(strata, sum(a * d / n) / sum(b * c / n))
print(strata)

# 5. The answer.
cat(sprintf("Odds ratio %.2f (95%% interval %.2f to %.2f); adjusted for the ward %.2f.\n",
            crude$odds_ratio, crude$odds_ratio_lower, crude$odds_ratio_upper, adjusted))
cat(sprintf('{"odds_ratio": %.6f, "low": %.6f, "high": %.6f, "adjusted": %.6f}\n',
            crude$odds_ratio, crude$odds_ratio_lower, crude$odds_ratio_upper, adjusted))
invisible(dbDisconnect(con))
