"""Estimators of scikit-learn, LightGBM and XGBoost, whose models are to predict what they do."""
