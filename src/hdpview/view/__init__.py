"""Released side: a view as data, and its file.

components       what every view is made of, as one protocol: blocks (rectangles) or a mixture
tables           released tables; quality: what was measured of the view's own errors
manifest         what is public about how the view came about
data             all of this together; merge: several views as one; sample: synthetic records
file             the .pview file: the manifest as JSON (manifest_json), and all else (contents)
save             a view that was paid for is not lost
card             one page to judge a view by (risk, audited); diagnosis: what it says about its schema
"""
