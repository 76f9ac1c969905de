# Do smokers come back to hospital more often? A research question answered from R, end to end.
#
#   hdpview demo
#   hdpview serve hdpview-demo/admissions.pview --postgres &
#   Rscript examples/readmissions.R
#
# Needs DBI, RPostgreSQL (or RPostgres), dplyr and dbplyr. No row of the table is ever read: the view answers
# from counts that were released under differential privacy, so no question costs further budget.

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

# 1. What is there? Tables, columns, and what each column means.
print(dbListFields(con, "admissions"))
print(dbGetQuery(con, "SELECT obj_description('admissions'::regclass, 'pg_class') AS about"))

# 2. A first look, with verbs of dplyr: the rate of coming back among smokers and others.
rates <- admissions %>%
  filter(!is.na(smoker)) %>%
  group_by(smoker) %>%
  summarise(n = n(), rate = mean(as.numeric(readmitted), na.rm = TRUE)) %>%
  collect()
print(rates)

# 3. The same as an odds ratio with its 95 % interval: hdpview.intervals adds the ends of every number.
invisible(dbGetQuery(con, "SET hdpview.intervals = on"))
crude <- dbGetQuery(con, "
  SELECT (COUNT(*) FILTER (WHERE smoker AND readmitted) * COUNT(*) FILTER (WHERE NOT smoker AND NOT readmitted))
       / (COUNT(*) FILTER (WHERE smoker AND NOT readmitted) * COUNT(*) FILTER (WHERE NOT smoker AND readmitted))
       AS odds_ratio
  FROM admissions")
print(crude)

# 4. Smokers differ in age, and age matters too. Counts per age group, and the odds ratio of Mantel and Haenszel.
invisible(dbGetQuery(con, "SET hdpview.intervals = off"))
strata <- dbGetQuery(con, "
  SELECT age / 20 * 20 AS from_age,
         COUNT(*) FILTER (WHERE smoker AND readmitted) AS a,
         COUNT(*) FILTER (WHERE smoker AND NOT readmitted) AS b,
         COUNT(*) FILTER (WHERE NOT smoker AND readmitted) AS c,
         COUNT(*) FILTER (WHERE NOT smoker AND NOT readmitted) AS d
  FROM admissions GROUP BY 1 HAVING COUNT(*) FILTER (WHERE smoker) > 100 ORDER BY 1")
strata$n <- with(strata, a + b + c + d)
adjusted <- with(strata, sum(a * d / n) / sum(b * c / n))
print(strata)

# 5. The answer.
cat(sprintf("Odds ratio %.2f (95 %% interval %.2f to %.2f); adjusted for age %.2f.\n",
            crude$odds_ratio, crude$odds_ratio_lower, crude$odds_ratio_upper, adjusted))
cat(sprintf('{"odds_ratio": %.6f, "low": %.6f, "high": %.6f, "adjusted": %.6f}\n',
            crude$odds_ratio, crude$odds_ratio_lower, crude$odds_ratio_upper, adjusted))
invisible(dbDisconnect(con))
